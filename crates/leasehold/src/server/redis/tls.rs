//! TLS by rustls with the ring provider, named here and not taken from the process: where another
//! crate brings a second provider, rustls refuses to choose, and panics.

use std::fmt::Display;
use std::sync::Arc;

use fred::rustls::crypto::ring;
use fred::rustls::pki_types::CertificateDer;
use fred::rustls::pki_types::pem::PemObject;
use fred::rustls::{ClientConfig, RootCertStore};
use fred::types::config::{TlsConfig, TlsConnector};

use super::endpoint::BadEndpoint;

/// Exactly the authorities of a PEM file.
pub(super) fn trusting(pem: &[u8]) -> Result<TlsConfig, BadEndpoint> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        roots.add(certificate.map_err(bad)?).map_err(bad)?;
    }
    if roots.is_empty() {
        return Err(BadEndpoint::Tls("no certificate in the given PEM".to_owned()));
    }
    config(roots)
}

/// The authorities of this system; one that cannot be read is left out.
pub(super) fn trusting_the_system() -> Result<TlsConfig, BadEndpoint> {
    let found = fred::rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (added, ignored) = roots.add_parsable_certificates(found.certs);
    tracing::debug!(added, ignored, errors = found.errors.len(), "authorities of this system");
    if roots.is_empty() {
        return Err(BadEndpoint::Tls("this system trusts no authority: name one".to_owned()));
    }
    config(roots)
}

fn config(roots: RootCertStore) -> Result<TlsConfig, BadEndpoint> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let versions = builder.with_safe_default_protocol_versions().map_err(bad)?;
    let config = versions.with_root_certificates(roots).with_no_client_auth();
    Ok(TlsConfig::from(TlsConnector::from(config)))
}

fn bad(error: impl Display) -> BadEndpoint {
    BadEndpoint::Tls(error.to_string())
}
