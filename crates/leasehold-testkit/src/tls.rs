//! A certificate for one server, and the authority that vouches for it.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

/// A self-signed authority and what it signed, as PEM.
#[derive(Clone, Debug)]
pub(crate) struct Authority {
    trusted: String,
    cert: String,
    key: String,
}

impl Authority {
    /// Another each time, for `localhost` and `127.0.0.1`.
    pub(crate) fn fresh() -> Self {
        match Self::make() {
            Ok(made) => made,
            Err(error) => panic!("no certificate: {error}"),
        }
    }

    fn make() -> Result<Self, rcgen::Error> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        let key = KeyPair::generate()?;
        let params = CertificateParams::new(["localhost".to_owned(), "127.0.0.1".to_owned()])?;
        let cert = params.signed_by(&key, &issuer)?;
        Ok(Self { trusted: issuer.pem(), cert: cert.pem(), key: key.serialize_pem() })
    }

    /// What to trust.
    pub(crate) fn certificate(&self) -> &str {
        &self.trusted
    }

    /// The files that a server's configuration names.
    pub(crate) fn files(&self) -> [(&'static str, &str); 3] {
        [("authority.pem", &self.trusted), ("cert.pem", &self.cert), ("key.pem", &self.key)]
    }
}
